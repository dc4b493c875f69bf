"""Access to users' git remotes: checked addresses, credentials, LFS."""
