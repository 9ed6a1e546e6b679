"""Line mode: plain text from top to bottom, without cursor movement (X2)."""
