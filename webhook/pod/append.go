package pod

import (
	"strconv"

	"attune.io/attune/recommender"
)

// binarySuffixes are the suffixes of powers of 1024 in Kubernetes quantities.
var binarySuffixes = [...]string{"", "Ki", "Mi", "Gi", "Ti"}

// appendAmount appends an amount as a quoted quantity, such as "250m" or "256Mi". The result equals that of
// podview.Quantity, without its three allocations for each amount: a review writes a dozen of them.
func appendAmount(b []byte, r recommender.Resource, a recommender.Amount) []byte {
	suffix := ""
	if r == recommender.Memory {
		power := 0
		for power < len(binarySuffixes)-1 && a != 0 && a%1024 == 0 {
			a, power = a/1024, power+1
		}
		suffix = binarySuffixes[power]
	} else if suffix = "m"; a%1000 == 0 {
		a, suffix = a/1000, ""
	}
	b = strconv.AppendInt(append(b, '"'), int64(a), 10)
	return append(append(b, suffix...), '"')
}

// appendString appends a JSON string. The text is valid UTF-8: it was decoded from JSON.
func appendString(b []byte, s string) []byte {
	// Only quotes, backslashes and control characters must be escaped in JSON (RFC 8259).
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
