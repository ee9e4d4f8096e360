"""Several hosts on one machine, and what a cluster over them is put through."""
