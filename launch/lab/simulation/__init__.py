"""`hobus simulate`: seeds, faults, the cluster in one process, and monitors of what must always hold."""
