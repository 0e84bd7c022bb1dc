"""Images: present on every host, the same everywhere, and what is inside them."""
