"""One page per file: decode the address, call a service, render a template."""
