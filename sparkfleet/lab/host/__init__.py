"""Building a lab host: namespaces, disk, sysfs, network, init."""
