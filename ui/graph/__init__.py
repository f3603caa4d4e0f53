"""The Graph page: explore and edit the relations between entities."""
