package policy

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"attune.io/attune/usage/address"
)

// checkAddress says what is wrong with a server's address, as the end of a sentence; empty: nothing.
// The operator asks whatever is named here from inside the cluster, so an address must not reach what
// only the node or the operator itself may reach. A name is not resolved here: whoever connects checks
// the address that it resolves to, by the same list.
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

// metadataHosts are names of cloud metadata services.
var metadataHosts = []string{"metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal"}

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
