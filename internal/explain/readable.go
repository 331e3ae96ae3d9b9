package explain

import (
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/recommender"
)

// Readable rounds a quantity for people: memory to a tenth of its unit; CPU stays exact. A text that is no
// quantity is returned as it is.
func Readable(r recommender.Resource, exact string) string {
	quantity, err := resource.ParseQuantity(exact)
	if err != nil || r != recommender.Memory {
		return exact
	}
	bytes := float64(quantity.Value())
	if bytes < 0 {
		return "-" + readableBytes(-bytes)
	}
	return readableBytes(bytes)
}

// orNone returns a readable amount, or "none" for nil.
func orNone(r recommender.Resource, exact *string) string {
	if exact == nil {
		return "none"
	}
	return Readable(r, *exact)
}

// units are the binary suffixes of Kubernetes quantities, each 1024 times the one before.
var units = [...]string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}

// readableBytes formats bytes with one decimal, such as 1.5Gi.
func readableBytes(bytes float64) string {
	unit := 0
	for bytes >= 1024 && unit < len(units)-1 {
		bytes /= 1024
		unit++
	}
	return strconv.FormatFloat(float64(int64(bytes*10+0.5))/10, 'f', -1, 64) + units[unit]
}
