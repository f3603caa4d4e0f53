"""Search every file of a folder for forgotten words. Shares no code with the modules that erase them."""
