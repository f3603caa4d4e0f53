"""A session as one page of HTML that opens anywhere: its contents, what is replaced in it, and its layout. Pure."""
