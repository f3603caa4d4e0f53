"""One message in the forms of other libraries: taken from them, and given to them."""
