"""The OpenAPI document, made from the routes and the types of the protocol, and a page to try them."""
