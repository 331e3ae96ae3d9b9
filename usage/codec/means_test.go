package codec_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage/codec"
)

// minute0 is the newest minute.
var minute0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Unix() / 60

func at(minute int64) time.Time { return time.Unix(minute*60, 0) }

func all(m *codec.Means, memory bool, now int64) (out []codec.Mean) {
	m.Each(memory, at(now), func(of codec.Mean) { out = append(out, of) })
	return out
}

// measured is one mean of a fleet.
type measured struct {
	memory         bool
	ready, unready int
	mean           float64
	minute         int64
}

// fleetOf returns means of a week, in random order.
func fleetOf(random *rand.Rand, fleets, count int) (out []measured) {
	for range count {
		out = append(out, measured{
			memory: random.IntN(2) == 1, ready: 1 + random.IntN(fleets), unready: random.IntN(2),
			mean: math.Exp(random.NormFloat64()), minute: minute0 - random.Int64N(7*24*60),
		})
	}
	return out
}

// contained reports whether a mean is in a range that is kept at least as long.
func contained(m *codec.Means, of measured) bool {
	return slices.ContainsFunc(all(m, of.memory, minute0), func(kept codec.Mean) bool {
		return kept.Ready == of.ready && kept.Unready == of.unready && kept.Least <= of.mean && of.mean <= kept.Greatest && kept.Seen >= of.minute
	})
}

func TestMeansContainAllThatWasMeasured(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		var m codec.Means
		given := fleetOf(random, 1+random.IntN(40), random.IntN(2000))
		for _, of := range given {
			require.True(t, m.Add(of.memory, of.ready, of.unready, of.mean, of.minute))
			require.LessOrEqual(t, m.Len(), codec.MostMeans)
		}
		assert.LessOrEqual(t, m.Bytes(), codec.MostFleet)
		for _, of := range given {
			if !contained(&m, of) {
				assert.Less(t, of.minute, m.Since, "only what was dropped is missing")
			}
		}
		sum := 0
		for _, kept := range append(all(&m, false, minute0), all(&m, true, minute0)...) {
			sum++
			assert.LessOrEqual(t, kept.LeastAt, kept.Seen)
			assert.LessOrEqual(t, kept.GreatestAt, kept.Seen)
			assert.Less(t, kept.Least, kept.Greatest)
		}
		assert.Equal(t, m.Len(), sum)
	}
}

func TestMeansDoNotDependOnTheOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	given := fleetOf(random, 3, 200)
	var once, twice codec.Means
	for _, of := range given {
		once.Add(of.memory, of.ready, of.unready, of.mean, of.minute)
	}
	slices.Reverse(given)
	for _, of := range append(given, given...) {
		twice.Add(of.memory, of.ready, of.unready, of.mean, of.minute)
	}
	assert.Equal(t, all(&once, false, minute0), all(&twice, false, minute0))
	assert.Equal(t, all(&once, true, minute0), all(&twice, true, minute0))
}

func TestMeansKeepGapsAndMergeWhatIsClose(t *testing.T) {
	var m codec.Means
	for i := range 2000 {
		m.Add(false, 1+i%20, 0, 0.1+0.2*float64(i/20)/100, minute0)
		m.Add(false, 1+i%20, 0, 1.0+0.2*float64(i/20)/100, minute0)
	}
	assert.Zero(t, m.Since, "nothing was dropped")
	for _, kept := range all(&m, false, minute0) {
		assert.False(t, kept.Least < 0.4 && kept.Greatest > 0.9, "the gap of fleet %d is closed: %+v", kept.Ready, kept)
	}
}

func TestManyFleetsDropTheOldest(t *testing.T) {
	var m codec.Means
	for i := range 1000 {
		m.Add(true, 1+i, 0, 5, minute0-1000+int64(i))
	}
	assert.Equal(t, codec.MostMeans, m.Len())
	assert.Equal(t, minute0-int64(codec.MostMeans), m.Since)
	assert.False(t, m.Add(false, 1<<15, 0, 1, minute0))
	assert.False(t, m.Add(false, 1, 1<<15, 1, minute0))
}

func TestMeansAreForgotten(t *testing.T) {
	var m codec.Means
	m.Add(false, 3, 0, 1, minute0-100)
	m.Add(false, 3, 0, 1.001, minute0)
	m.Add(false, 3, 1, 1, minute0-100)
	m.Forget(minute0-50, minute0)
	kept := all(&m, false, minute0)
	require.Len(t, kept, 1)
	assert.LessOrEqual(t, kept[0].Least, 1.0, "a part of a range stays with it")
	assert.Equal(t, minute0, kept[0].LeastAt)
}

func TestMeansUnderAClockThatWasAhead(t *testing.T) {
	var m codec.Means
	m.Add(false, 3, 0, 1, minute0+120)
	m.SetBack(minute0)
	kept := all(&m, false, minute0)
	require.Len(t, kept, 1)
	assert.Equal(t, minute0, kept[0].Seen)
}

func TestMeansOfOddValues(t *testing.T) {
	for _, value := range []float64{0, 1e-300, codec.MinValue, 1, 64 << 40, math.MaxFloat64} {
		var m codec.Means
		m.Add(true, 1, 0, value, minute0)
		kept := all(&m, true, minute0)
		require.Len(t, kept, 1)
		assert.LessOrEqual(t, kept[0].Least, value)
		if value <= 64<<40 {
			assert.LessOrEqual(t, value, kept[0].Greatest)
			assert.LessOrEqual(t, kept[0].Greatest-kept[0].Least, 0.001*value+codec.MinValue)
		}
	}
}

// fleet returns a fleet of containers with their own means.
func fleet(containers, ranges int) codec.Fleet {
	random := rand.New(rand.NewPCG(5, 6))
	f := codec.Fleet{Step: time.Minute, At: minute0}
	for i := range f.Known {
		for hour := minute0/60 - codec.MostFleetHours; hour <= minute0/60; hour++ {
			for range 57 + random.IntN(4) {
				f.Known[i].Add(hour, 60)
			}
		}
	}
	add := func(m *codec.Means) {
		for _, of := range fleetOf(random, 20, ranges) {
			m.Add(of.memory, of.ready, of.unready, of.mean, of.minute)
		}
	}
	add(&f.Pods)
	for i := range containers {
		f.Containers = append(f.Containers, codec.ContainerMeans{Name: fmt.Sprint("c", i)})
		add(&f.Containers[i].Means)
	}
	if containers == 0 {
		f.Sole = "app"
	}
	return f
}

func TestFleetsArePackedWithoutLoss(t *testing.T) {
	for _, containers := range []int{0, 2, codec.MostFleetContainers} {
		f := fleet(containers, 2000)
		packed := codec.PackFleet(f, codec.MostFleet*(1+containers))
		t.Logf("%d containers: %d bytes", containers, len(packed))
		require.NotNil(t, packed)
		got, err := codec.UnpackFleet(packed)
		require.NoError(t, err)
		assert.Equal(t, f.Known, got.Known)
		assert.Equal(t, f.Sole, got.Sole)
		assert.Equal(t, all(&f.Pods, false, minute0), all(&got.Pods, false, minute0))
		require.Len(t, got.Containers, containers)
		for i := range got.Containers {
			assert.Equal(t, all(&f.Containers[i].Means, true, minute0), all(&got.Containers[i].Means, true, minute0))
		}
	}
}

func TestAFleetThatDoesNotFitIsCoarser(t *testing.T) {
	f := fleet(0, 2000)
	before := all(&f.Pods, false, minute0)
	for _, most := range []int{2000, 1000, 600} {
		packed := codec.PackFleet(f, most)
		require.NotNil(t, packed)
		assert.LessOrEqual(t, len(packed), most)
		got, err := codec.UnpackFleet(packed)
		require.NoError(t, err)
		for _, of := range before {
			if of.Seen >= got.Pods.Since {
				assert.True(t, contained(&got.Pods, measured{false, of.Ready, of.Unready, of.Least, of.LeastAt}))
				assert.True(t, contained(&got.Pods, measured{false, of.Ready, of.Unready, of.Greatest, of.GreatestAt}))
			}
		}
	}
	assert.Equal(t, before, all(&f.Pods, false, minute0), "the caller's is unchanged")
	assert.Nil(t, codec.PackFleet(f, 10))
	assert.Nil(t, codec.PackFleet(codec.Fleet{Step: time.Minute}, 4096))
}

func TestMergedFleets(t *testing.T) {
	a, b := codec.Fleet{Step: time.Minute, Sole: "app"}, codec.Fleet{Step: time.Minute, Sole: "main"}
	a.Pods.Add(false, 1, 0, 1, minute0)
	b.Pods.Add(false, 1, 0, 2, minute0)
	a.Merge(b, minute0)
	assert.Len(t, all(a.Of(""), false, minute0), 2)
	assert.Len(t, all(a.Of("app"), false, minute0), 1)
	assert.Len(t, all(a.Of("main"), false, minute0), 1)
	assert.Nil(t, a.Of("other"))
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 3))
		var x, y codec.Means
		given := fleetOf(random, 12, 1200)
		for i, of := range given {
			if i%2 == 0 {
				x.Add(of.memory, of.ready, of.unready, of.mean, of.minute)
			} else {
				y.Add(of.memory, of.ready, of.unready, of.mean, of.minute)
			}
		}
		x.Merge(&y, minute0)
		assert.LessOrEqual(t, x.Len(), codec.MostMeans)
		for _, of := range given {
			assert.True(t, of.minute < x.Since || contained(&x, of))
		}
		// What is merged can be packed, so its ranges are in order and do not overlap.
		f := codec.Fleet{Step: time.Minute, At: minute0, Pods: x}
		f.Known[0].Add(minute0/60, 60)
		_, err := codec.UnpackFleet(codec.PackFleet(f, codec.MostFleet))
		require.NoError(t, err)
	}
}

func FuzzUnpackFleet(f *testing.F) {
	f.Add(codec.PackFleet(fleet(2, 300), 3*codec.MostFleet))
	f.Add(codec.PackFleet(fleet(0, 20), codec.MostFleet))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, packed []byte) {
		for _, bytes := range [][]byte{packed, codec.FleetSum(packed)} {
			got, err := codec.UnpackFleet(bytes)
			if err != nil {
				continue
			}
			again, err := codec.UnpackFleet(codec.PackFleet(got, 1<<20))
			if len(got.Known[0].Counts)+len(got.Known[1].Counts) > 0 {
				require.NoError(t, err)
				assert.Equal(t, got, again)
			}
			got.Merge(again, minute0)
			got.Each(func(m *codec.Means) { m.Forget(minute0-60, minute0) })
			for _, of := range all(&got.Pods, false, minute0) {
				assert.LessOrEqual(t, of.Least, of.Greatest)
			}
		}
	})
}

// TestAWeekOfAnHPA has a load that doubles and halves each day, with noise, and an HPA that follows it.
func TestAWeekOfAnHPA(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	f := codec.Fleet{Step: time.Minute, At: minute0, Sole: "app"}
	pods := 2
	for at := minute0 - 8*24*60 + 1; at <= minute0; at++ {
		load := 6 * math.Exp2(1.66*math.Sin(float64(at)/1440*2*math.Pi)) * (1 + 0.05*random.NormFloat64())
		mean := load / float64(pods)
		f.Pods.Add(false, pods, 0, mean, at)
		f.Pods.Add(true, pods, 0, 400<<20*(1+0.1*random.Float64()), at)
		for i := range f.Known {
			f.Known[i].Add((at-1)/60, 60)
		}
		if math.Abs(mean-1) > 0.1 {
			pods = max(2, min(20, int(math.Ceil(load))))
		}
	}
	packed := codec.PackFleet(f, codec.MostFleet)
	t.Logf("%d ranges, %d bytes in memory, %d packed", f.Pods.Len(), f.Pods.Bytes(), len(packed))
	assert.Zero(t, f.Pods.Since, "all of it is known")
	assert.LessOrEqual(t, len(packed), codec.MostFleet)
}
