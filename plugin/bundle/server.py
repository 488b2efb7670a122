"""Starts the MCP server of the bundle."""

import sys

from hermes.__main__ import start

sys.argv[1:] = ["mcp", "serve", "--source", "claude-desktop"]
start()
