"""What the package needs of the machine and of its users: files, locks, processes, remedies, limits."""
