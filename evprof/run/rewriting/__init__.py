"""Sessions written anew from others: joined, or with less in them."""
