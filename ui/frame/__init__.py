"""Everything around a page: header, sidebar, menu, scrubber, keys, and the dialog that goes anywhere."""
