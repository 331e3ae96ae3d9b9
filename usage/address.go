package usage

import "net/netip"

// metadataAddresses answer with the credentials of the machine in some cloud and are neither link-local
// nor otherwise told apart.
var metadataAddresses = [...]netip.Addr{
	netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("168.63.129.16"),
	netip.MustParseAddr("192.0.0.192"),
	netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("fd00:ec2::23"),
	netip.MustParseAddr("fd20:ce::254"),
}

// nat64 carries an IPv4 address in its last four bytes.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// AllowedAddress is asked when a setting is checked, and again when the address is dialled that a name resolved to.
//
// It says whether a source may be reached at the address. No policy may name a link-local (a cloud's
// metadata service), unspecified or multicast address. An address that comes from a policy may not be
// loopback either, where the operator's own ports listen; only the operator's own configuration may.
// Cluster addresses are allowed: that is where most servers are, and only namespaces that the operator's
// values name may have a source of their own.
func AllowedAddress(ip netip.Addr, policySource bool) bool {
	ip = plainAddress(ip)
	if !ip.IsValid() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || isBroadcast(ip) {
		return false
	}
	for _, metadata := range metadataAddresses {
		if ip == metadata {
			return false
		}
	}
	return !policySource || !ip.IsLoopback()
}

// plainAddress takes an address out of its disguises.
func plainAddress(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if nat64.Contains(ip) {
		bytes := ip.As16()
		return netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return ip
}

func isBroadcast(ip netip.Addr) bool {
	// All of 0.0.0.0/8 is "this host", and some systems take it for loopback.
	return ip.Is4() && (ip.As4()[0] == 0 || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}))
}
