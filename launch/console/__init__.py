"""What every command says and ends with: errors, exit codes, tables, colours, Ctrl-C. Knows nothing of a cluster."""
