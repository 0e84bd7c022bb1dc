"""How a lab host is built: namespaces, disk, sysfs, network, init."""
