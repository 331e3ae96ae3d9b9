package usage_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/usage"
)

func TestSamplesThatCannotBeTrueAreDropped(t *testing.T) {
	const gib = 1 << 30
	node := usage.MostOn(8, 32*gib)
	for name, tc := range map[string]struct {
		most   usage.Most
		value  float64
		memory bool
		want   usage.Drop
	}{
		"CPU of 0 is a measurement":              {node, 0, false, ""},
		"memory of 0 is not":                     {node, 0, true, usage.DropZero},
		"memory of a byte":                       {node, 1, true, ""},
		"just under the bound":                   {node, 12, false, ""},
		"40 cores of interleaved counters":       {node, 40, false, usage.DropImplausible},
		"just above the bound":                   {node, 12.001, false, usage.DropImplausible},
		"memory just under the bound":            {node, 48 * gib, true, ""},
		"memory above the bound":                 {node, 48*gib + 1, true, usage.DropImplausible},
		"no node is known":                       {usage.Most{}, 1600, false, ""},
		"no node is known, 10,001 cores":         {usage.Most{}, 10_001, false, usage.DropImplausible},
		"no node is known, 64 TiB":               {usage.Most{}, 64 << 40, true, ""},
		"no node is known, more":                 {usage.Most{}, 65 << 40, true, usage.DropImplausible},
		"only CPU is known":                      {usage.MostOn(8, 0), 1 << 40, true, ""},
		"negative":                               {node, -1, true, usage.DropNegative},
		"not a number":                           {node, math.NaN(), false, usage.DropNotANumber},
		"infinite":                               {node, math.Inf(1), false, usage.DropInfinite},
		"negative zero of memory is 0 bytes too": {node, math.Copysign(0, -1), true, usage.DropZero},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, tc.most.DropOf(tc.value, tc.memory)) })
	}
}
