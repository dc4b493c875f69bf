"""Jobs from the client's side: submit, upload, follow the log."""
