"""Reports to send on: one file of HTML, without anything that runs or is fetched from elsewhere."""
