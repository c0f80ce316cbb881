"""The child's side and the wire between coordinator and children: JSON headers and raw buffers, never a pickle."""
