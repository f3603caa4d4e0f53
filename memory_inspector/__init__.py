"""The app as a command. In an installed package the app itself lies beside this file; in the repository, above it."""
