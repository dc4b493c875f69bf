"""Jobs as the API shows them."""
