"""Opening places beneath the roots, and walking over them."""
