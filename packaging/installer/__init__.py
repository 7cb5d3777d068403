"""Makes of the frozen folder what a person installs: a .deb, a self-extracting .run and a portable .tar.zst."""
