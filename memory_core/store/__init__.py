"""Where memory lives: tables and the transactions on them. Rows hold identity, order and sizes;
words live once, in the content store, under the hash by which events name them."""
