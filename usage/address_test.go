package usage_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/usage"
)

func TestAllowed(t *testing.T) {
	for _, test := range []struct {
		ip               string
		operator, policy bool
	}{
		{"10.96.0.10", true, true},
		{"172.30.0.1", true, true},
		{"192.168.1.1", true, true},
		{"fd00::1", true, true},
		{"203.0.113.7", true, true},
		{"2001:db8::1", true, true},
		{"::ffff:10.0.0.1", true, true},

		{"127.0.0.1", true, false},
		{"127.8.8.8", true, false},
		{"::1", true, false},
		{"::ffff:127.0.0.1", true, false},
		{"64:ff9b::7f00:1", true, false},

		{"64:ff9b:1::a00:1", true, true},
		{"64:ff9b:1:a00:0:100::", true, true},
		{"64:ff9b:1::7f00:1", true, false},
		{"64:ff9b:1:7f00:0:100::", true, false},
		{"2002:a00:1::1", true, true},
		{"2002:7f00:1::1", true, false},
		{"::7f00:1", true, false},
		{"::ffff:0:7f00:1", true, false},

		{"64:ff9b:1::a9fe:a9fe", false, false},
		{"64:ff9b:1:a9fe:a9:fe00::", false, false},
		{"64:ff9b:1:a9:fe:a9fe::", false, false},
		{"64:ff9b:1:0:a9:fea9:fe00:0", false, false},
		{"64:ff9b:1::6464:64c8", false, false},
		{"2002:a9fe:a9fe::1", false, false},
		{"2002:a83f:8110::1", false, false},
		{"::a9fe:a9fe", false, false},
		{"::ffff:0:a9fe:a9fe", false, false},
		{"169.254.169.254", false, false},
		{"169.254.0.1", false, false},
		{"::ffff:169.254.169.254", false, false},
		{"64:ff9b::a9fe:a9fe", false, false},
		{"fe80::1", false, false},
		{"fe80::1%eth0", false, false},
		{"febf::1", false, false},
		{"0.0.0.0", false, false},
		{"0.0.0.1", false, false},
		{"::", false, false},
		{"::ffff:0.0.0.0", false, false},
		{"224.0.0.1", false, false},
		{"239.255.255.255", false, false},
		{"ff02::1", false, false},
		{"ff0e::1", false, false},
		{"255.255.255.255", false, false},
		{"100.100.100.200", false, false},
		{"168.63.129.16", false, false},
		{"192.0.0.192", false, false},
		{"fd00:ec2::254", false, false},
		{"fd00:ec2::23", false, false},
		{"fd20:ce::254", false, false},
	} {
		t.Run(test.ip, func(t *testing.T) {
			ip := netip.MustParseAddr(test.ip)
			assert.Equal(t, test.operator, usage.AllowedAddress(ip, false), "from the operator's configuration")
			assert.Equal(t, test.policy, usage.AllowedAddress(ip, true), "from a policy")
		})
	}
	assert.False(t, usage.AllowedAddress(netip.Addr{}, false), "no address")
}
