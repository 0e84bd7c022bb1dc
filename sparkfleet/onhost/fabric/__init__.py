"""Programs that test and measure the fabric."""
