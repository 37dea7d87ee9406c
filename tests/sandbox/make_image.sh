#!/usr/bin/env bash
# Makes the image that the container back end is tested with, out of Debian's packages; no image registry is asked.
#
#   tests/sandbox/make_image.sh [ARCHIVE]      prints the name of the image
#
# Needs root, debootstrap and podman. ARCHIVE keeps the tree for machines whose image store is emptied. The tree is
# made on a tmpfs in a mount namespace of its own: it goes with the namespace, with all that debootstrap mounted in
# it, and nothing has to be deleted.
set -euo pipefail

image=localhost/toolbox-mcp-tests:bookworm-1
archive=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/toolbox-mcp-ci/sandbox-image-bookworm-1.tar}

if ! podman image exists "$image"; then
    if [ ! -s "$archive" ]; then
        mkdir -p "$(dirname "$archive")"
        unshare --mount --propagation private bash -euc '
            mount -t tmpfs -o size=1g,mode=755 tmpfs /mnt
            mkdir /mnt/tree
            debootstrap --variant=minbase --include=python3 bookworm /mnt/tree >&2
            tar --create --one-file-system --directory /mnt/tree --exclude "./dev/*" --exclude "./var/cache/apt/*" \
                --exclude "./var/lib/apt/lists/*" --exclude "./usr/share/doc/*" --exclude "./usr/share/man/*" \
                --exclude "./usr/share/locale/*" --file "$1" .
        ' make_image "$archive.part"
        mv "$archive.part" "$archive"
    fi
    podman import --quiet --change 'ENV PATH=/usr/local/bin:/usr/bin:/bin' "$archive" "$image" >&2
fi
echo "$image"
