"""What waits and arrives: barrier blocks, ring cursors, and the pipelines between warp roles."""
