"""Sessions of users in this node's processes: each is a WebSocket to the head, in a thread of its own."""
