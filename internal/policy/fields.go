package policy

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// The functions of this file read one field each, of one kind of value, and check it as the CRD's own
// rules do: settings also come from files, which no API server has checked. What is wrong is noted,
// and the built-in value stands in for it.

// oneOf reads a field with a fixed set of values. A built-in value is not checked, so it may be one that users
// cannot choose, such as the empty ranking.
func oneOf[T ~string | ~int32](o *overlay, path string, builtIn T, allowed []T, field func(layer) *T) T {
	value := pick(o, path, builtIn, field)
	if o.origin[path] != BuiltIn && !slices.Contains(allowed, value) {
		o.invalid(path, "%s %s is not one of %s", path, o.quote(path, value), join(allowed))
		return builtIn
	}
	return value
}

// within reads an integer between least and most, both inclusive.
func within(o *overlay, path string, builtIn, least, most int32, field func(layer) *int32) int {
	value := pick(o, path, builtIn, field)
	if value < least || value > most {
		o.invalid(path, "%s %s must be between %d and %d, e.g. %d", path, o.quote(path, value), least, most, builtIn)
		return int(builtIn)
	}
	return int(value)
}

// span reads a duration between least and most, both inclusive.
func span(o *overlay, path string, builtIn, least, most time.Duration, field func(layer) *v1alpha1.Duration) time.Duration {
	return o.checkSpan(path, pick(o, path, duration(builtIn), field).Duration.Duration, builtIn, least, most)
}

// checkSpan checks a duration that was already read.
func (o *overlay) checkSpan(path string, value, builtIn, least, most time.Duration) time.Duration {
	if value < least || value > most {
		o.invalid(path, "%s %s must be between %s and %s, e.g. %s", path, o.quote(path, short(value)), short(least), short(most), short(builtIn))
		return builtIn
	}
	return value
}

// number reads a decimal number between least and most from a string. The API has decimal numbers as strings,
// since the Kubernetes API conventions advise against floating-point fields.
func number[S ~string](o *overlay, path string, builtIn S, least, most float64, field func(layer) *S) float64 {
	return o.checkNumber(path, string(pick(o, path, builtIn, field)), string(builtIn), least, most)
}

// checkNumber checks a number that was already read.
func (o *overlay) checkNumber(path, text, builtIn string, least, most float64) float64 {
	value, err := strconv.ParseFloat(text, 64)
	if err == nil && value >= least && value <= most && decimal.MatchString(text) {
		return value
	}
	o.invalid(path, "%s %s must be a decimal number between %s and %s, e.g. %q", path, o.quote(path, text), plain(least), plain(most), builtIn)
	value, _ = strconv.ParseFloat(builtIn, 64)
	return value
}

func plain(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// decimal accepts less than ParseFloat: no exponent, hexadecimal, Inf, NaN or underscore.
var decimal = regexp.MustCompile(`^-?[0-9]+([.][0-9]+)?$`)

// maxAmounts bound amounts in settings far below what integer arithmetic on them could overflow: a million cores,
// an exbibyte.
var maxAmounts = [2]resource.Quantity{
	recommender.CPU:    resource.MustParse("1000000"),
	recommender.Memory: resource.MustParse("1Ei"),
}

// amount reads a quantity that bounds a request, in millicores or bytes; 0: no bound is set.
func amount(o *overlay, path string, r recommender.Resource, example string, field func(layer) *resource.Quantity) recommender.Amount {
	value := pick(o, path, resource.Quantity{}, field)
	if o.origin[path] == BuiltIn {
		return 0
	}
	if value.Sign() <= 0 || value.Cmp(maxAmounts[r]) > 0 {
		o.invalid(path, "%s %s must be greater than 0 and at most %s, e.g. %s", path, o.quote(path, value.String()), maxAmounts[r].String(), example)
		return 0
	}
	return podview.AmountOf(r, value)
}

func duration(d time.Duration) v1alpha1.Duration {
	var value v1alpha1.Duration
	value.Duration.Duration = d
	return value
}

// short writes a duration as people do: 1h instead of 1h0m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
