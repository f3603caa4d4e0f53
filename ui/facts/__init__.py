"""The Facts page: review and edit what a facts block has learned."""
