"""One cluster on this machine: its home, its sockets, its run file, and a place on its bus for a client."""
