"""Everything around a page: header, sidebar, menu, scrubber, keyboard shortcuts, and the *Go to* dialog."""
