package sandbox

import "slices"

// Mask is a host path that local boxes do not see. A leading ~ stands for every home.
type Mask struct{ Path, Why string }

// Masks lists what local boxes do not see unless their policy says otherwise: other users' secrets, key files, and the
// sockets of the host's engines and services. Sockets with a path elsewhere are found when a box is made.
func Masks() []Mask { return slices.Clone(masks) }

var masks = []Mask{
	{"/run", "sockets of the host's services"},
	{"/var/run", "the same, where it is no link"},
	{"/etc/shadow", "password hashes"},
	{"/etc/gshadow", "password hashes"},
	{"/etc/shadow-", "password hashes"},
	{"/etc/gshadow-", "password hashes"},
	{"/etc/sudoers", "who may become whom"},
	{"/etc/sudoers.d", "who may become whom"},
	{"/etc/ssl/private", "private keys"},
	{"/etc/pki/tls/private", "private keys"},
	{"/etc/ssh", "host keys"},
	{"/etc/docker", "engine keys"},
	{"/etc/kubernetes", "cluster keys"},
	{"/etc/krb5.keytab", "the host's key"},
	{"/var/lib/docker", "other containers' files"},
	{"/var/lib/containerd", "other containers' files"},
	{"/var/lib/kubelet", "cluster keys"},
	{"/var/lib/sss", "cached credentials"},
	{"/sys/fs/cgroup", "the host's process groups"},
	{"/sys/kernel/debug", "kernel internals"},
	{"/sys/kernel/tracing", "kernel internals"},
	{"/sys/kernel/security", "the security modules' controls"},
	{"/var/lib/hardshell", "our own data and keys"},
	{"/etc/hardshell", "our own settings, secrets among them"},
	{"~/.local/share/hardshell", "our own data and keys"},
	{"~/.config/hardshell", "our own settings, secrets among them"},
	{"~/.ssh", "keys"},
	{"~/.gnupg", "keys"},
	{"~/.aws", "cloud credentials"},
	{"~/.azure", "cloud credentials"},
	{"~/.config/gcloud", "cloud credentials"},
	{"~/.kube", "cluster credentials"},
	{"~/.docker", "registry credentials"},
	{"~/.config/containers", "registry credentials"},
	{"~/.config/gh", "forge credentials"},
	{"~/.config/hub", "forge credentials"},
	{"~/.config/glab-cli", "forge credentials"},
	{"~/.netrc", "passwords"},
	{"~/.git-credentials", "passwords"},
	{"~/.config/git/credentials", "passwords"},
	{"~/.pgpass", "passwords"},
	{"~/.my.cnf", "passwords"},
	{"~/.npmrc", "registry tokens"},
	{"~/.pypirc", "registry tokens"},
	{"~/.cargo/credentials", "registry tokens"},
	{"~/.cargo/credentials.toml", "registry tokens"},
	{"~/.gem/credentials", "registry tokens"},
	{"~/.vault-token", "tokens"},
	{"~/.terraform.d/credentials.tfrc.json", "tokens"},
	{"~/.password-store", "passwords"},
	{"~/.local/share/keyrings", "passwords"},
	{"~/.mozilla", "cookies and passwords"},
	{"~/.config/google-chrome", "cookies and passwords"},
	{"~/.config/chromium", "cookies and passwords"},
	{"~/.bash_history", "what was typed, passwords among it"},
	{"~/.zsh_history", "what was typed, passwords among it"},
}
