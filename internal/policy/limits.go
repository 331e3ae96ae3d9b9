package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

const (
	cpuLimits = "cpu.limits"
	// mostRatio is the largest ratio of a limit to a request in settings.
	mostRatio = 1000
)

// limitRule reads cpu.limits; the zero value is Keep.
func limitRule(o *overlay) recommender.LimitRule {
	value := pick(o, cpuLimits, v1alpha1.CPULimits{JSON: `"` + v1alpha1.CPULimitsKeep + `"`}, func(l *layer) *v1alpha1.CPULimits { return l.CPU.Limits })
	rule, why := LimitRuleOf(value)
	if why != "" {
		o.invalid(cpuLimits, "%s %s %s", cpuLimits, o.quote(cpuLimits, asWritten(value)), why)
	}
	return rule
}

// LimitRuleOf reads a value of cpu.limits. The text is empty for a valid value. Otherwise it is the rest of a sentence
// after the value, and the rule is Keep.
func LimitRuleOf(value v1alpha1.CPULimits) (rule recommender.LimitRule, why string) {
	const form = `must be Keep, Remove, or an object with ratio, min or max, e.g. {ratio: "3", max: "4"}`
	var word string
	if json.Unmarshal([]byte(value.JSON), &word) == nil && word != "" {
		switch word {
		case v1alpha1.CPULimitsKeep:
			return rule, ""
		case v1alpha1.CPULimitsRemove:
			return recommender.LimitRule{Remove: true}, ""
		}
		return rule, form
	}
	object, ok := limitBounds(value.JSON)
	if !ok {
		return rule, form
	}
	for _, read := range []struct {
		text scalar
		into *recommender.Amount
		of   func(string) (recommender.Amount, bool)
		want string
	}{
		{object.Ratio, &rule.Thousandths, ratioOf, fmt.Sprintf(`must have a ratio from 1 to %d, e.g. {ratio: "3"}`, mostRatio)},
		{object.Min, &rule.Min, limitOf, "must have a min greater than 0 and at most " + maxLimit.String() + ", e.g. {min: 500m}"},
		{object.Max, &rule.Max, limitOf, "must have a max greater than 0 and at most " + maxLimit.String() + `, e.g. {max: "4"}`},
	} {
		if read.text == "" {
			continue
		}
		amount, ok := read.of(string(read.text))
		if !ok {
			return recommender.LimitRule{}, read.want
		}
		*read.into = amount
	}
	if rule.Max > 0 && rule.Min > rule.Max {
		return recommender.LimitRule{}, `must have a min that is less than or equal to max, e.g. {min: 500m, max: "4"}`
	}
	return rule, ""
}

// limitObject is the object form of cpu.limits.
type limitObject struct{ Ratio, Min, Max scalar }

// limitBounds decodes an object with at least one of the known fields, and no other.
func limitBounds(text string) (object limitObject, ok bool) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&object); err != nil || !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return object, false
	}
	_, err := decoder.Token()
	return object, err == io.EOF && object != (limitObject{})
}

// asWritten returns a word without quotes, and any other value as JSON.
func asWritten(value v1alpha1.CPULimits) string {
	var word string
	if json.Unmarshal([]byte(value.JSON), &word) == nil {
		return word
	}
	return value.JSON
}

// scalar is a string or a number in JSON, as text; empty if not set.
type scalar string

// UnmarshalJSON accepts a string or a number.
func (s *scalar) UnmarshalJSON(text []byte) error {
	var number json.Number
	if json.Unmarshal(text, (*string)(s)) == nil && *s != "" {
		return nil
	}
	if err := json.Unmarshal(text, &number); err != nil || number == "" {
		return errNoScalar
	}
	*s = scalar(number)
	return nil
}

var errNoScalar = errors.New("neither text nor a number")

// ratioOf reads a ratio in thousandths, without further decimals.
func ratioOf(text string) (recommender.Amount, bool) {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !decimal.MatchString(text) || !(value >= 1 && value <= mostRatio) {
		return 0, false
	}
	return recommender.Amount(value*1000 + 0.5), true
}

// maxLimit bounds min and max.
var maxLimit = maxAmounts[recommender.CPU]

// limitOf reads a CPU limit in millicores.
func limitOf(text string) (recommender.Amount, bool) {
	value, err := workload.ParseQuantity(text)
	if err != nil || value.Sign() <= 0 || value.Cmp(maxLimit) > 0 {
		return 0, false
	}
	return podview.AmountOf(recommender.CPU, value), true
}

// checkLimits rejects a rule for CPU limits together with RequestsOnly, which leaves them alone.
func checkLimits(o *overlay, s Settings) {
	const values = "cpu.controlledValues"
	cpu := s.Recommender.Of[recommender.CPU]
	if cpu.LimitsFollow || cpu.Limits == (recommender.LimitRule{}) {
		return
	}
	set := pick(o, cpuLimits, v1alpha1.CPULimits{}, func(l *layer) *v1alpha1.CPULimits { return l.CPU.Limits })
	o.clash([]string{cpuLimits, values}, "%s %s does not work with %s %s, which leaves limits unchanged: set %s to Keep, or %s to %s",
		cpuLimits, o.quote(cpuLimits, asWritten(set)), values, o.quote(values, v1alpha1.ControlledRequestsOnly), cpuLimits, values, v1alpha1.ControlledRequestsAndLimits)
}

// leaveLimits drops the rule for CPU limits with strategy Node, which leaves CPU limits as the template has them.
func leaveLimits(of v1alpha1.Strategy, s *recommender.Settings) {
	if of == v1alpha1.StrategyNode {
		s.Of[recommender.CPU].Limits = recommender.LimitRule{}
	}
}
