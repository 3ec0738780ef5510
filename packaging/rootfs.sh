#!/bin/sh
# Assembles the root file system of the image: the program, the shared libraries that it needs, the
# certificates of public authorities, the user without rights (65532), and the directory of the data. There is
# no shell and no package manager in it. Run it as root: packaging/rootfs.sh PROGRAM DIRECTORY
set -eu

program=$1
root=$2
certificates=${CERTIFICATES:-/etc/ssl/certs/ca-certificates.crt}

if [ -e "$root" ]; then
    echo "$root exists already: name a directory that does not exist" >&2
    exit 1
fi
if ldd "$program" 2>/dev/null | grep 'not found' >&2; then
    echo "$program needs a library that this system does not have" >&2
    exit 1
fi
mkdir -p "$root/usr/bin" "$root/etc/ssl/certs" "$root/etc/sandur" "$root/proc" "$root/dev" "$root/sys"
install -m 0755 "$program" "$root/usr/bin/sandur"

# `ldd` prints "NAME => PATH (ADDRESS)", and the path of the loader without an arrow. The links to /usr are
# those of the system on which the program was built.
for library in $(ldd "$program" 2>/dev/null | grep -o '/[^ ]*'); do
    mkdir -p "$root$(dirname "$library")"
    install -m 0755 "$library" "$root$library"
done

install -m 0644 "$certificates" "$root/etc/ssl/certs/ca-certificates.crt"
echo 'sandur:x:65532:65532:sandur:/data:/usr/sbin/nologin' > "$root/etc/passwd"
echo 'sandur:x:65532:' > "$root/etc/group"
echo 'hosts: files dns' > "$root/etc/nsswitch.conf"

install -d -m 0750 -o 65532 -g 65532 "$root/data"
install -d -m 0750 -o 65532 -g 65532 "$root/var/cache/sandur"
# Temporary files are not needed; a program that expects the directory finds it.
install -d -m 1777 "$root/tmp"
