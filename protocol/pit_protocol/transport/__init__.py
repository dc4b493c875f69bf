"""Parts that both ends of a connection share: certificates, tar streams, hashes, tunnels."""
