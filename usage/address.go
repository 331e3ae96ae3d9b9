package usage

import "net/netip"

// metadataAddresses return the machine's credentials in some cloud. They are neither link-local nor recognisable in
// another way.
var metadataAddresses = [...]netip.Addr{
	netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("168.63.129.16"),
	netip.MustParseAddr("192.0.0.192"),
	netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("fd00:ec2::23"),
	netip.MustParseAddr("fd20:ce::254"),
}

// nat64 embeds an IPv4 address in its last four bytes.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// AllowedAddress reports whether a source may be reached at the address. It is called when a setting is checked, and
// again when the resolved address is dialled.
//
// No policy may name a link-local (a cloud's metadata service), unspecified or multicast address. An address from a
// policy must not be loopback either, where the operator's own ports listen; only the operator's own configuration may
// use it. Cluster addresses are allowed, because most servers are there, and only namespaces that the operator's values
// name may have a source of their own.
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

// plainAddress unwraps an IPv4 address embedded in IPv6, and removes the zone.
func plainAddress(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if nat64.Contains(ip) {
		bytes := ip.As16()
		return netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return ip
}

func isBroadcast(ip netip.Addr) bool {
	// All of 0.0.0.0/8 is "this host", and some systems treat it as loopback.
	return ip.Is4() && (ip.As4()[0] == 0 || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}))
}
