"""What pages and endpoints read out of a result document. Nothing is measured, and no verdict is made, here."""
