#!/usr/bin/env bash
# Makes an OpenLDAP directory with a certificate for this machine, a reader, two users and a group.
set -euo pipefail
mkdir -p /srv/ldap/db
cd /srv/ldap
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj "/CN=$(hostname)" -addext "subjectAltName=DNS:$(hostname)" \
  -keyout key.pem -out cert.pem 2> /dev/null
cat > slapd.conf << 'CONF'
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile /srv/ldap/slapd.pid
TLSCertificateFile /srv/ldap/cert.pem
TLSCertificateKeyFile /srv/ldap/key.pem
database mdb
suffix "dc=example,dc=org"
directory /srv/ldap/db
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="cn=reader,dc=example,dc=org" read by anonymous auth by * none
CONF
user() {
  printf 'dn: uid=%s,dc=example,dc=org\nobjectClass: account\nobjectClass: posixAccount\nuid: %s\ncn: %s\n' "$1" "$1" "$1"
  printf 'uidNumber: %s\ngidNumber: 20001\nhomeDirectory: /home/%s\nloginShell: /bin/sh\nuserPassword: right\n\n' "$2" "$1"
}
{
  printf 'dn: dc=example,dc=org\nobjectClass: organization\nobjectClass: dcObject\no: example\ndc: example\n\n'
  printf 'dn: cn=reader,dc=example,dc=org\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\ncn: reader\n'
  printf "userPassword: reader's secret\n\n"
  user ldapuser 20001
  printf 'dn: cn=researchers,dc=example,dc=org\nobjectClass: posixGroup\ncn: researchers\ngidNumber: 20001\n\n'
  user stranger 20002 | sed 's/gidNumber: 20001/gidNumber: 20002/'
} | slapadd -f slapd.conf
touch ready
