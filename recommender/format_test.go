package recommender

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		resource Resource
		amount   Amount
		want     string
	}{
		{CPU, 0, "0"}, {CPU, 1, "1m"}, {CPU, 250, "250m"}, {CPU, 1000, "1"}, {CPU, 1500, "1500m"}, {CPU, 64000, "64"},
		{Memory, 0, "0"}, {Memory, 1, "1"}, {Memory, 1023, "1023"}, {Memory, 1024, "1Ki"}, {Memory, 268435456, "256Mi"},
		{Memory, 1 << 30, "1Gi"}, {Memory, 3 << 29, "1536Mi"}, {Memory, 697932186, "697932186"}, {Memory, 1 << 60, "1Ei"},
		{Memory, math.MaxInt64, "9223372036854775807"},
	} {
		assert.Equal(t, c.want, Format(c.resource, c.amount))
	}
}

func TestReadable(t *testing.T) {
	assert.Equal(t, "1500m", Readable(CPU, 1500))
	assert.Equal(t, "1.34Gi", Readable(Memory, 1438814044))
}

// Kubernetes reads our text as the same amount and writes it in the same way.
func FuzzFormat(f *testing.F) {
	for _, a := range []int64{0, 1, 1000, 1023, 1024, 1 << 20, 1<<30 + 1, math.MaxInt64} {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, n int64) {
		n &= math.MaxInt64 // amounts are not negative
		memory, err := resource.ParseQuantity(Format(Memory, Amount(n)))
		require.NoError(t, err)
		require.Equal(t, n, memory.Value())
		if n >= 1024 { // below 1024, Kubernetes uses decimal suffixes: 1k
			require.Equal(t, resource.NewQuantity(n, resource.BinarySI).String(), Format(Memory, Amount(n)))
		}

		cpu, err := resource.ParseQuantity(Format(CPU, Amount(n)))
		require.NoError(t, err)
		require.Zero(t, cpu.Cmp(*resource.NewMilliQuantity(n, resource.DecimalSI)))
	})
}

func TestSentences(t *testing.T) {
	s := func(s sentence) string { return string(s) }
	for _, c := range []struct{ got, want string }{
		{s(sentence(nil).usage(CPU, 200)), "200m"},
		{s(sentence(nil).usage(CPU, 200.44)), "200.4m"},
		{s(sentence(nil).usage(CPU, 2000)), "2"},
		{s(sentence(nil).usage(CPU, 1500)), "1500m"},
		{s(sentence(nil).usage(CPU, 0)), "0"},
		{s(sentence(nil).usage(CPU, 0.04)), "0m"},
		{s(sentence(nil).usage(Memory, 0)), "0"},
		{s(sentence(nil).usage(Memory, 900)), "900"},
		{s(sentence(nil).usage(Memory, 1300<<20)), "1300Mi"},
		{s(sentence(nil).usage(Memory, 1438814044)), "1.34Gi"},
		{s(sentence(nil).usage(Memory, 1e30)), "867361737988.4Ei"},
		{s(sentence(nil).number(0.5, 0)), "0"},
		{s(sentence(nil).number(10, 0)), "10"},
		{s(sentence(nil).number(10, 2)), "10"},
		{s(sentence(nil).number(-0.001, 2)), "0"},
		{s(sentence(nil).number(-2.50, 2)), "-2.5"},
		{s(sentence("is ").number(-0.001, 2)), "is 0"},
		{s(sentence(nil).duration(0)), "0m"},
		{s(sentence(nil).duration(20 * time.Minute)), "20m"},
		{s(sentence(nil).duration(3*time.Hour + 5*time.Minute)), "3h5m"},
		{s(sentence(nil).duration(47 * time.Hour)), "47h0m"},
		{s(sentence(nil).duration(84 * time.Hour)), "3.5 days"},
		{s(sentence(nil).days(1)), "1 day"},
		{s(sentence(nil).at(time.Date(2026, 3, 2, 1, 4, 59, 0, time.FixedZone("", -3600)))), "2026-03-02 02:04 UTC"},
	} {
		assert.Equal(t, c.want, c.got)
	}
}

func TestOrdinals(t *testing.T) {
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 50: "50th", 92: "92nd", 93: "93rd", 95: "95th", 100: "100th"} {
		assert.Equal(t, want, string(sentence(nil).ordinal(n)))
	}
}
