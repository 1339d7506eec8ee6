#!/bin/sh
# Restores the time zone that record.sh wrote to the file $1.
[ -f "$1" ] || exit 0
{ read -r link; read -r name; } < "$1"
ln -sfn "$link" /etc/localtime || exit
if [ -n "$name" ]; then echo "$name" > /etc/timezone; else rm -f /etc/timezone; fi
rm "$1" && rmdir --ignore-fail-on-non-empty "${1%/*}" && echo changed
