package policy

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"attune.io/attune/usage/address"
)

// checkAddress returns what is wrong with a server's address, as the end of a sentence; empty: nothing.
//
// The operator connects to the address from inside the cluster and with its own network rights, so an address must
// not lead to what only the node or the operator may reach (server-side request forgery). Host names are not
// resolved here, since they can resolve to something else later: the usage client checks the resolved address, by
// the same list (internal/address).
func checkAddress(server string, level Level) string {
	const example = "e.g. http://prometheus.monitoring:9090"
	u, err := url.Parse(server)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return "is not a URL: use scheme, host and port, " + example
	case u.Scheme != "http" && u.Scheme != "https":
		return "must begin with http:// or https://, " + example
	case u.User != nil:
		return "must not hold a user name or password: use basicAuth and leave them out, " + example
	case u.RawQuery != "" || u.Fragment != "":
		return "must not hold a query or fragment: use queryParameters, " + example
	case forbiddenHost(u.Hostname(), level):
		return "points at the node's or the operator's own endpoints: use a Service, " + example
	}
	return ""
}

// metadataHosts are names of the metadata services of clouds, which hand out credentials of the node.
var metadataHosts = []string{"metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal"}

// forbiddenHost reports whether a host must not be named at this level. The cluster's own level may name loopback
// addresses, as its author also installs the operator.
func forbiddenHost(host string, level Level) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if slices.Contains(metadataHosts, host) {
		return true
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return !address.Allowed(ip, level != Cluster)
	}
	// Some resolvers read 2852039166 and 0xa9fea9fe as the IPv4 address that the number stands for.
	if strings.Trim(host, "0123456789.") == "" || strings.HasPrefix(host, "0x") {
		return true
	}
	return level != Cluster && (host == "localhost" || strings.HasSuffix(host, ".localhost"))
}
