"""A fake full-duplex realtime server that scripts faults. Imports `scenarios`, never `client`."""
