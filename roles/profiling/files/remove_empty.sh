#!/bin/sh
# Removes a directory ($1) that no package owns and that is empty: the role created it.
[ ! -d "$1" ] || dpkg-query --search "$1" > /dev/null 2>&1 || ! rmdir "$1" 2> /dev/null || echo changed
