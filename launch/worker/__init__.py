"""A worker on another host: it joins with a token, keeps a home of its own, and executes."""
